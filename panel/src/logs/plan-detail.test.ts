import { expect } from 'chai'
import type { FindText } from '../i18n/plan-failure-text.ts'
import { planDetail } from './plan-detail.ts'

const known: Readonly<Record<string, string>> = {
  'console.mode.shell': 'Shell',
  'console.end.closed': 'The session was ended.',
  'logs.console': '{{name}} for {{time}}. {{end}}',
  'logs.setting': '{{name}}: {{value}}',
  'logs.part.dry_run': 'check only',
  'limits.network_down_mbps': 'Download',
  'logs.field.host': 'Host',
  'error.host_offline': 'The host is offline.',
}
const find: FindText = (key, fallback, values = {}) =>
  known[key]?.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name])) ?? fallback

describe('the details of an entry in a log', () => {
  for (const [name, detail, success, text] of [
    [
      'describe a console session',
      'shell, 82 s, 0 bytes in, 24 out, closed',
      true,
      'Shell for 1:22. The session was ended.',
    ],
    ['name limits', 'id 101, networkDownMbps 100', true, 'Download: 100'],
    ['name other fields', 'id 3, host a1', true, 'Host: a1'],
    ['have words', 'id 3, dry run', true, 'check only'],
    ['explain the code of a failure', 'host_offline: the host is not reachable', false, 'The host is offline.'],
    ['stay as they are if nothing is known about them', 'id 3, first line', true, 'first line'],
    ['keep the message of a failure without a text', 'new_code: why', false, 'new_code: why'],
    ['can be missing', '', true, ''],
  ] as const)
    it(name, () => expect(planDetail({ detail, success }, find)).to.equal(text))
})
