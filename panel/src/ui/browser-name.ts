const browsers: readonly (readonly [name: string, pattern: RegExp])[] = [
  // In this order, since each name also contains the later ones.
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

/** The common name of a browser: `Firefox 128 · Linux`. For other programs, the text that they send. */
export function browserName(userAgent: string): string {
  for (const [name, pattern] of browsers) {
    const found = pattern.exec(userAgent)
    if (!found) continue
    const system = systems.find(([, sign]) => sign.test(userAgent))
    return [`${name} ${found[1] ?? found[2]}`, ...(system ? [system[0]] : [])].join(' · ')
  }
  return userAgent || '–'
}
