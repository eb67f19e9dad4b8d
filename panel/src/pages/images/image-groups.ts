import type { Image } from '../../api/types.ts'

/** The same operating system on the hosts that offer it. */
export interface ImageGroup {
  readonly key: string
  /** One image for each host. It is never empty. */
  readonly images: readonly [Image, ...Image[]]
}
export const imageStates = ['ready', 'disabled', 'downloading', 'failed', 'absent', 'unsupported'] as const
export type ImageState = (typeof imageStates)[number]

/** Empty values match everything. */
export interface ImageFilter {
  readonly text: string
  readonly state: ImageState | ''
  readonly type: string
  readonly host: string
}

export function stateOf({ downloading, downloaded, enabled, supported, error }: Image): ImageState {
  if (downloading) return 'downloading'
  if (downloaded) return enabled ? 'ready' : 'disabled'
  if (!supported) return 'unsupported'
  return error === '' ? 'absent' : 'failed'
}

/** Groups the images that match a filter. Images that guests can use come first, and those that no host can use last. */
export function groupImages(images: readonly Image[], { text, state, type, host }: ImageFilter): ImageGroup[] {
  const wanted = text.toLowerCase()
  const groups = new Map<string, [Image, ...Image[]]>()
  for (const image of images) {
    if (type !== '' && image.type !== type) continue
    if (host !== '' && image.host_id !== host) continue
    if (!`${image.id} ${image.name}`.toLowerCase().includes(wanted)) continue
    const key = `${image.type}/${image.arch}/${image.id}`
    const group = groups.get(key)
    if (group) group.push(image)
    else groups.set(key, [image])
  }
  return [...groups]
    .map(([key, members]) => ({ key, images: members }))
    .filter((group) => state === '' || group.images.some((image) => stateOf(image) === state))
    .sort((a, b) => rankOf(a) - rankOf(b))
}

function rankOf({ images }: ImageGroup): number {
  const states = images.map(stateOf)
  if (states.some((state) => state === 'ready' || state === 'disabled' || state === 'downloading')) return 0
  return states.every((state) => state === 'unsupported') ? 2 : 1
}

/** Returns the first that exists: the image of the selected host, one with the searched state, a failed one, any image. */
export function shownImage({ images }: ImageGroup, hostId: string | undefined, state: ImageState | ''): Image {
  const [first] = images
  return (
    images.find(({ host_id: id }) => id === hostId) ??
    images.find((image) => state !== '' && stateOf(image) === state) ??
    images.find((image) => stateOf(image) === 'failed') ??
    first
  )
}

/** Returns the images that can be downloaded to their hosts. */
export function missingImages({ images }: ImageGroup): Image[] {
  return images.filter((image) => ['absent', 'failed'].includes(stateOf(image)))
}
