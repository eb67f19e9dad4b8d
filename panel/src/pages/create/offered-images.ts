import type { EnabledImage, Image } from '../../api/types.ts'

/** An image that the form for a new guest offers. */
export interface OfferedImage extends EnabledImage {
  /** True if no host has the image, so that it must be downloaded first. */
  readonly missing: boolean
}

/**
 * Adds images that no host has to those that are ready.
 * @param catalogue all images of all hosts
 * @param hostId host of the new guest; empty: any host
 */
export function offerImages(
  ready: readonly EnabledImage[],
  catalogue: readonly Image[],
  hostId: string,
): OfferedImage[] {
  const known = new Set(ready.map(({ id }) => id))
  const held = new Set(catalogue.filter(({ downloaded }) => downloaded).map(({ id }) => id))
  const missing = new Map<string, OfferedImage>()
  for (const image of catalogue) {
    const isUsable = image.kind === undefined && image.supported && image.enabled
    if (!isUsable || known.has(image.id) || held.has(image.id) || (hostId || image.host_id) !== image.host_id) continue
    missing.set(image.id, { ...image, missing: true })
  }
  return [...ready.map((image) => ({ ...image, missing: false })), ...missing.values()]
}

export interface DownloadState {
  readonly isOver: boolean
  /** Progress of all hosts together in percent. */
  readonly percent: number
  /** Error code, if no host has the image after the download. Empty: there is no error. */
  readonly error: string
}

/** Returns how far the download of an image is. @param hostId host of the new guest; empty: all hosts */
export function downloadState(catalogue: readonly Image[], id: string, hostId: string): DownloadState {
  const rows = catalogue.filter((image) => image.id === id && (hostId || image.host_id) === image.host_id)
  const taking = rows.filter(({ downloading, downloaded }) => downloading || downloaded)
  const sum = taking.reduce((total, { progress }) => total + progress, 0)
  const isReady = rows.some(({ downloaded }) => downloaded)
  return {
    isOver: rows.every(({ downloading }) => !downloading),
    percent: taking.length === 0 ? 0 : Math.round(sum / taking.length),
    error: isReady ? '' : (rows.find(({ error }) => error !== '')?.error ?? 'image_missing'),
  }
}
