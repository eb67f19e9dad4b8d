import type { FindText } from '../i18n/plan-failure-text.ts'

/** Details of a console session: its mode, its seconds, its traffic, and the reason of its end. */
const session = /^(shell|serial|vnc|run), (\d+) s, \d+ bytes in, \d+ out, (\w+)$/
/** A setting and its value, such as `networkDownMbps 100`. */
const setting = /^([a-z]+(?:[A-Z][a-z]+|_[a-z]+)*) (\S+)$/

/**
 * Describes the details of an entry of the audit log in the language of the page. Parts without a text stay as they are.
 * @param find returns the text of a key with values. Unknown key: the second argument
 */
export function planDetail({ detail, success }: Entry, find: FindText): string {
  const known = session.exec(detail)
  if (known) return describeSession(known, find)
  if (!success) return find(`error.${detail.split(':', 1)[0]}`, detail)
  return detail
    .split(', ')
    .filter((part) => !/^id \d+$/.test(part))
    .map((part) => describePart(part, find))
    .join(', ')
}

interface Entry {
  readonly detail: string
  readonly success: boolean
}

function describeSession([, mode = '', seconds = '', reason = '']: readonly string[], find: FindText): string {
  const name = find(`console.mode.${mode}`, mode)
  const end = find(`console.end.${reason}`, reason)
  return find('logs.console', `${name}, ${seconds} s, ${end}`, { name, time: durationOf(Number(seconds)), end })
}

function durationOf(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function describePart(part: string, find: FindText): string {
  const words = find(`logs.part.${part.replaceAll(' ', '_')}`, '')
  if (words !== '') return words
  const [, name = '', value = ''] = setting.exec(part) ?? []
  if (name === '') return part
  const field = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const label = find(`limits.${field}`, find(`logs.field.${field}`, ''))
  return label === '' ? part : find('logs.setting', part, { name: label, value })
}
