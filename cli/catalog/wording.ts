/* This module converts texts of the API for the command line, which says "guest" and "customer" like the panel. */

export interface WordingContext {
  /** Commands by operation, such as `GET /containers`. */
  readonly commands: ReadonlyMap<string, string>
  /** Flags of the command. In the text, the names of their fields are replaced by the names of the flags. */
  readonly flags: readonly { readonly name: string; readonly field: string }[]
}

/** Converts a text. Between backticks are names of operations, fields and values; all other text is prose. */
export function wordingOf(text: string, context: WordingContext): string {
  const converted = text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? codeOf(part, context) : proseOf(part)))
    .join('')
  return phrases.reduce((result, [found, replacement]) => result.replaceAll(found, replacement), converted)
}

/** Phrases about requests and answers, with the words for commands. */
const phrases: readonly (readonly [RegExp, string])[] = [
  [/ The answer has the status \d+\./g, ''],
  [/ Such requests get \d+ with the code `[^`]*`\./g, ''],
  [/\b([Tt])he answer contains\b/g, '$1he output contains'],
  [/\b(Omitted fields|Fields that are not sent) stay unchanged/g, 'Settings without a flag stay unchanged'],
  [/(`--[\w-]+`) is sent\b/g, '$1 is given'],
  [/\bthese two fields\b/g, 'these two flags'],
  [/\bthe field of that mode is sent\b/g, 'the flag of that mode is given'],
  [/\bnever returned\b/g, 'never shown'],
  [/\bin the answer\b/g, 'in the output'],
  [/\bonly returns\b/g, 'only shows'],
]

function codeOf(code: string, { commands, flags }: WordingContext): string {
  const [, operation] = /^`([A-Z]+ \/[^?]*?)(\?.*)?`$/.exec(code) ?? []
  const command = operation === undefined ? undefined : commands.get(operation)
  if (command !== undefined) return `\`berth ${command}\``
  const flag = flags.find(({ field }) => code === `\`${field}\``)
  return flag === undefined ? code : `\`--${flag.name}\``
}

function proseOf(text: string): string {
  return text
    .replace(
      /(?<!LXC )\b([cC])ontainer(s?)\b(?!_|:[\w*])/g,
      (_, c: string, end: string) => `${c === 'C' ? 'G' : 'g'}uest${end}`,
    )
    .replace(/\b([sS])ub-user(s?)\b/g, (_, s: string, end: string) => `${s === 'S' ? 'C' : 'c'}ustomer${end}`)
}
