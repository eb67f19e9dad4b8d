/**
 * Converts `help` to `--help`: `berth help guest create` and `berth guest help create` are `berth guest create --help`.
 * @param groups names of all commands that have subcommands
 */
export function helpWords(words: readonly string[], groups: ReadonlySet<string>): readonly string[] {
  if (words[0] === 'help') return [...words.slice(1), '--help']
  if (words[1] === 'help' && groups.has(words[0]!)) return [words[0]!, ...words.slice(2), '--help']
  return words
}
