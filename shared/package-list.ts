/**
 * Returns the version of a package in a list of packages (deb-control(5), paragraphs separated by empty lines).
 * @returns "" if the list does not contain it
 */
export function parsePackageVersion(list: string, name: string): string {
  const paragraph = list.split(/\n\n+/).find((text) => fieldOf(text, 'Package') === name)
  return paragraph === undefined ? '' : fieldOf(paragraph, 'Version')
}

function fieldOf(paragraph: string, field: string): string {
  return new RegExp(`^${field}: (\\S+)$`, 'm').exec(paragraph)?.[1] ?? ''
}
