import { expect } from 'chai'
import type { Flag, Operation } from '../catalog/operation.js'
import { planRequest, type Input } from './plan-request.js'

const flag = (name: string, more: Partial<Flag> = {}): Flag => ({
  name,
  place: 'body',
  field: name.replaceAll('-', '_'),
  type: 'text',
  text: '',
  ...more,
})

const operation: Operation = {
  noun: 'guest',
  verb: 'test',
  method: 'POST',
  path: '/containers/{id}/test',
  summary: '',
  arguments: [
    { label: 'guest', place: 'path', field: 'id' },
    { label: 'name', place: 'body', field: 'name' },
  ],
  flags: [
    flag('ram', { field: 'ram_mb', type: 'size', unit: 'MiB' }),
    flag('disk', { field: 'disk_gb', type: 'size', unit: 'GiB' }),
    flag('traffic', { field: 'traffic_gb', type: 'size', unit: 'GB' }),
    flag('vcpu', { type: 'number' }),
    flag('count', { type: 'whole' }),
    flag('start', { type: 'switch' }),
    flag('scope', { field: 'scopes', isList: true }),
    flag('port', { field: 'ports', type: 'object', isList: true }),
    flag('mode', { values: ['lxc', 'kvm'] }),
    flag('expires-at'),
    flag('user-data'),
    flag('force', { place: 'query', type: 'switch' }),
  ],
  hasBody: true,
  answer: 'envelope',
  example: '',
}

const nowMs = Date.parse('2030-01-01T00:00:00Z')
const files: Readonly<Record<string, string>> = { 'body.json': '{"name": "file", "vcpu": 1}', key: 'text\n' }
const context = { nowMs: () => nowMs, readFile: (path: string) => files[path] ?? '' }
const plan = (flags: Record<string, string[] | boolean>, input: Partial<Input> = {}) =>
  planRequest(operation, { arguments: ['a/b', 'web1'], flags: new Map(Object.entries(flags)), ...input }, context)

describe('the request of a command', () => {
  it('has the arguments in its path and body, and the flags in its query and body', () => {
    expect(plan({ force: true, start: false })).to.deep.equal({
      method: 'POST',
      path: '/containers/a%2Fb/test',
      query: { force: 'true' },
      body: { name: 'web1', start: false },
    })
  })

  for (const [name, flags, fields] of [
    ['sizes', { ram: ['2g'], disk: ['1.5t'], traffic: ['2t'] }, { ram_mb: 2048, disk_gb: 1536, traffic_gb: 2000 }],
    ['sizes without a suffix', { ram: ['512'], disk: ['5'] }, { ram_mb: 512, disk_gb: 5 }],
    ['sizes with a long suffix', { ram: ['512MiB'], disk: ['5GB'] }, { ram_mb: 512, disk_gb: 5 }],
    ['numbers', { vcpu: ['0.5'], count: ['3'] }, { vcpu: 0.5, count: 3 }],
    ['lists, written with commas or as repeated flags', { scope: ['a,b', 'c'] }, { scopes: ['a', 'b', 'c'] }],
    ['an empty list', { scope: [''] }, { scopes: [] }],
    [
      'objects, written as pairs or as JSON',
      { port: ['protocol=tcp,port=80', '{"port":81}'] },
      { ports: [{ protocol: 'tcp', port: '80' }, { port: 81 }] },
    ],
    ['words in upper or lower case', { mode: ['KVM'] }, { mode: 'kvm' }],
    ['relative times', { 'expires-at': ['+2d'] }, { expires_at: '2030-01-03T00:00:00Z' }],
    ['absolute times', { 'expires-at': ['2031-01-01'] }, { expires_at: '2031-01-01' }],
    ['files', { 'user-data': ['@key'] }, { user_data: 'text' }],
    ['texts that begin with @ and are written with @@', { 'user-data': ['@@key'] }, { user_data: '@key' }],
    ['the last value of a repeated flag', { mode: ['lxc', 'kvm'] }, { mode: 'kvm' }],
  ] as const)
    it(`can be built from ${name}`, () =>
      expect(plan(flags as never).body).to.deep.equal({ name: 'web1', ...(fields as object) }))

  it('takes its body from a file, and lets flags and arguments replace fields of the body', () => {
    expect(plan({ vcpu: ['2'] }, { arguments: ['a'], body: '@body.json' }).body).to.deep.equal({
      name: 'file',
      vcpu: 2,
    })
    expect(plan({}, { body: '@body.json' }).body).to.deep.equal({ name: 'web1', vcpu: 1 })
  })

  for (const [flags, input, message] of [
    [{ ram: ['1k'] }, {}, '--ram: 1k: must be a multiple of 1 MiB'],
    [{ ram: ['x'] }, {}, '--ram: x: not a size; write a number with k, m, g or t, such as 512m'],
    [{ count: ['1.5'] }, {}, '--count: 1.5 is not a whole number'],
    [{ vcpu: [''] }, {}, '--vcpu:  is not a number'],
    [{ mode: ['xen'] }, {}, '--mode: xen must be one of lxc, kvm'],
    [{ port: ['80'] }, {}, '--port: 80 is neither JSON nor key=value,key=value'],
    [{}, { arguments: ['a'] }, 'missing: NAME'],
    [{}, { arguments: ['', 'x'] }, 'missing: GUEST'],
    [{}, { arguments: ['..', 'x'] }, 'GUEST: must not be . or ..'],
    [{}, { body: '[]' }, '--data: must be a JSON object'],
  ] as const)
    it(`is not sent if an input is wrong: ${message}`, () =>
      expect(() => plan(flags as never, input)).to.throw(message))
})
