/* Rules for the fields of custom images, checked by the gateway and again by the agent. */

/** Prefix of the ids of custom images. No catalogue template has an id with this prefix. */
const customIdPrefix = 'custom-'
const customIdPattern = /^custom-[a-z0-9][a-z0-9.-]{0,55}$/

/** A name has 1 to 100 printable characters on one line. The regular expression needs the flag `u`. */
export const imageNamePattern = '^[^\\p{Cc}\\u2028\\u2029]{1,100}$'
/** A distribution, release or variant. It is a single word, because it is part of image ids and of lists of images. */
export const imageWordPattern = '^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$'
export const sha256Pattern = '^[0-9A-Fa-f]{64}$'
/** Permitted sources of an image file. The agent's configuration decides which network targets are allowed. */
export const imageUrlPattern =
  '^([Hh][Tt][Tt][Pp][Ss]?://[\\x21-\\x7e]{1,1990}|upload:[A-Za-z0-9][A-Za-z0-9._-]{0,127})$'
/** Source `upload:NAME`: a file that an administrator has copied to the host. NAME contains no path. */
export const uploadPattern = '^upload:([A-Za-z0-9][A-Za-z0-9._-]{0,127})$'

/** Maps common names of architectures to Debian's names. */
const architectures: Readonly<Record<string, string>> = {
  amd64: 'amd64',
  x86_64: 'amd64',
  'x86-64': 'amd64',
  x64: 'amd64',
  arm64: 'arm64',
  aarch64: 'arm64',
  ppc64el: 'ppc64el',
  ppc64le: 'ppc64el',
}

export function isCustomImageId(id: string): boolean {
  return customIdPattern.test(id)
}

/**
 * Makes the id of a custom image. The id is readable. All repetitions of the request give the same id.
 * @param operationId the UUID of the request's operation
 */
export function customImageId(name: string, operationId: string): string {
  const words = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
  const tail = operationId.replaceAll('-', '').slice(0, 12)
  return `${customIdPrefix}${words === '' ? '' : `${words.slice(0, 40)}-`}${tail}`
}

/** Returns Debian's name of an architecture. Undefined: no supported host has this architecture. */
export function findArchitecture(word: string): string | undefined {
  const known = word.toLowerCase()
  return Object.hasOwn(architectures, known) ? architectures[known] : undefined
}
