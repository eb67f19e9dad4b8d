import type { Flag, ObjectKey } from '../catalog/operation.js'
import { isTimeField } from '../input/times.js'
import type { HelpSection } from './berth-command.js'

/* Texts in the help of the commands of operations. */

/** Returns a section for each flag whose value is an object. */
export function objectSections(flags: readonly Flag[]): HelpSection[] {
  return flags.flatMap(({ name, keys = [], example = '' }) =>
    keys.length === 0
      ? []
      : [{ heading: `Keys of --${name}:`, rows: keys.map(keyRow), example: `--${name} ${example}` }],
  )
}

const keyRow = ({ name, type, text, isRequired }: ObjectKey): readonly [string, string] => [
  name,
  [`(${isRequired ? 'required, ' : ''}${type})`, text].filter(Boolean).join(' '),
]

/** Returns lines about the syntax of values, if the command has flags with such values. */
export function valueHelp(flags: readonly Flag[]): string {
  const has = (type: Flag['type']): boolean => flags.some((flag) => flag.type === type)
  const lines = [
    has('size') ? 'Sizes: 512m, 1.5g, or a number in the unit of the flag.' : '',
    flags.some(isTime) ? 'Times: 2030-12-31, "2030-12-31 23:59:59", or relative to now: +30d, -2h, +90m.' : '',
    has('object') ? 'Objects: key=value,key=value or JSON. Lists and objects in an object need JSON.' : '',
    flags.some(isFreeText) ? 'Texts: @FILE reads a text from a file, @- from the standard input.' : '',
  ].filter(Boolean)
  return lines.map((line) => `${line}\n`).join('')
}

const isTime = ({ type, field, values }: Flag): boolean => type === 'text' && !values && isTimeField(field)

/** True for a text of the user, such as a password or a description. */
const isFreeText = (flag: Flag): boolean =>
  flag.place === 'body' && flag.type === 'text' && !flag.values && !flag.names && !isTime(flag)

export function flagDescription(flag: Flag): string {
  return [flag.isRequired ? 'Required.' : '', flag.text, valuesText(flag)].filter(Boolean).join(' ')
}

function valuesText({ values, isList, type, text }: Flag): string {
  const allowed = values && !values.every((value) => text.includes(value)) ? `One of ${values.join(', ')}.` : ''
  const list = isList ? `Can be repeated${type === 'object' ? '' : ' or contain commas'}; '' is an empty list.` : ''
  return [allowed, list].filter(Boolean).join(' ')
}

export function placeholderOf(flag: Flag): string {
  const { type, names, values } = flag
  if (names) return names.replace(/-.*/, '')
  if (values) return 'word'
  if (isTime(flag)) return 'time'
  return { text: 'text', whole: 'number', number: 'number', size: 'size', object: 'key=value,…', switch: '' }[type]
}
