import type { EnabledImage } from '../../api/types.ts'

const storageKey = 'berth.images'

type Names = Readonly<Record<string, string>>

/** Returns the id of the image that was last used for a type of guests in this browser; undefined: none. */
export function lastUsedImage(type: string): string | undefined {
  return stored()[type]
}

/** Stores the image of a new guest, so that the form for the next guest begins with it. */
export function storeUsedImage(type: string, image: string): void {
  localStorage.setItem(storageKey, JSON.stringify({ ...stored(), [type]: image }))
}

function stored(): Names {
  try {
    return JSON.parse(localStorage.getItem(storageKey) ?? '{}') as Names
  } catch {
    return {}
  }
}

/** Selects the last used image, else the newest Debian, else the first image. @param images must not be empty */
export function selectDefaultImage(
  images: readonly Pick<EnabledImage, 'id' | 'name' | 'distro'>[],
  lastUsed: string | undefined,
): string {
  if (images.some(({ id }) => id === lastUsed)) return lastUsed!
  // Releases are code names. Only the names of the images contain numbers, such as "Debian 13".
  const debian = images.filter(({ name, distro }) => distro === 'debian' && /^debian \d/i.test(name))
  const [newest = images[0]!] = debian.toSorted((a, b) => b.name.localeCompare(a.name, 'en', { numeric: true }))
  return newest.id
}
