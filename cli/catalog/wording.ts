/* Converts texts of the API to texts of the command line, which say "guest" and "customer" like the panel. */

/** @param commands commands by operation, such as `GET /containers` */
export function wordingOf(text: string, commands: ReadonlyMap<string, string>): string {
  return text
    .replace(/`([A-Z]+) (\/[^`?]*?)(?:\?[^`]*)?`/g, (whole, method: string, path: string) => {
      const command = commands.get(`${method} ${path}`)
      return command === undefined ? whole : `\`berth ${command}\``
    })
    .replace(/(?<!LXC )\b(c|C)ontainer(s?)\b(?!_)/g, (_, first: string, end: string) => `${first === 'C' ? 'G' : 'g'}uest${end}`)
    .replace(/\b(s|S)ub-user(s?)\b/g, (_, first: string, end: string) => `${first === 'S' ? 'C' : 'c'}ustomer${end}`)
}
