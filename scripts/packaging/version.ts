/**
 * Returns the version of the packages in a form that Debian orders correctly. It is the tag, followed by the number of
 * commits since the tag unless this number is 0.
 * @param described output of `git describe --tags --long --match 'v*'`, for example v0.2.0-5-g1a2b3c4; "" without a tag
 * @param fallback version of package.json, for a checkout without tags
 * @param commits number of commits and abbreviated hash of the checkout, for example 812.g1a2b3c4
 */
export function packageVersion(described: string, fallback: string, commits: string): string {
  if (described === '') return `${fallback}+${commits}`
  const parts = /^v(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)-(\d+)-(g[0-9a-f]+)$/.exec(described)
  if (!parts) throw new RangeError(`the tag of ${described} is not a version such as v1.2.3 or v1.2.3-rc.1`)
  const [, tag = '', since, hash] = parts
  const version = tag.replace('-', '~')
  return since === '0' ? version : `${version}+${since}.${hash}`
}
