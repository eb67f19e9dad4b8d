const browsers: readonly (readonly [name: string, pattern: RegExp])[] = [
  // The first match counts, because a browser's user agent also contains names that are further down in this list.
  ['Edge', /Edg(?:e|A|iOS)?\/(\d+)/],
  ['Opera', /OPR\/(\d+)/],
  ['Firefox', /(?:Firefox|FxiOS)\/(\d+)/],
  ['Chrome', /Chrom(?:e|ium)\/(\d+)|CriOS\/(\d+)/],
  ['Safari', /Version\/(\d+)[\d.]* .*Safari\//],
]
const systems: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Macintosh/],
  ['Linux', /Linux/],
]

/** Returns the common name of a browser, such as `Firefox 128 · Linux`. Other user agents are returned unchanged. */
export function browserName(userAgent: string): string {
  for (const [name, pattern] of browsers) {
    const found = pattern.exec(userAgent)
    if (!found) continue
    const system = systems.find(([, sign]) => sign.test(userAgent))
    return [`${name} ${found[1] ?? found[2]}`, ...(system ? [system[0]] : [])].join(' · ')
  }
  return userAgent || '–'
}
