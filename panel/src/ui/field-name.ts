/**
 * Finds the field of a form that a refused field of a request belongs to. The API names values within a field by their
 * path, for example `scopes.0`.
 * @param refused name or path of the refused field, as the API spells it
 */
export function findField(refused: string | undefined, fields: Iterable<string>): string | undefined {
  return [...fields].find((field) => refused === field || refused?.startsWith(`${field}.`))
}
