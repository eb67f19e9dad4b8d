/** Groups of data that pages show. */
export type Topic =
  | 'guests'
  | 'tasks'
  | 'hosts'
  | 'alerts'
  | 'images'
  | 'snapshots'
  | 'backups'
  | 'accounts'
  | 'webhooks'
  /** Measurements of hosts, which have events. */
  | 'host-usage'
  /** Measurements without events: each page that shows some reads them periodically. */
  | 'usage'

/** Topics without events: they are read again when the user returns to the window. */
export const untold: readonly Topic[] = ['images', 'snapshots', 'backups', 'accounts', 'webhooks', 'usage']

/** A change in the form of the stream. */
export interface Change {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  /** Topics that the change may affect. */
  readonly topics: readonly Topic[]
  /** Id of the affected guest; 0: none, or several. */
  readonly guest: number
}

/** True if a change concerns that guest, or no single guest. @param id 0: any guest */
export function concernsGuest(id: () => number): (change: Change) => boolean {
  return ({ guest }) => guest === 0 || id() === 0 || guest === id()
}

/** An event of the stream. @param text its `data` */
export function parseChange(text: string): Change {
  const { type, data } = JSON.parse(text) as Pick<Change, 'type' | 'data'>
  const [kind = '', word = ''] = type.split('.')
  return { type, data, topics: topicsOf(kind, word, data), guest: guestOf(kind, data) }
}

function guestOf(kind: string, data: Change['data']): number {
  const id = kind === 'guest' ? data['id'] : data['container_id']
  return typeof id === 'number' ? id : 0
}

function topicsOf(kind: string, word: string, data: Change['data']): readonly Topic[] {
  if (kind === 'task') return ['tasks', ...effectsOf(word, data)]
  if (kind === 'host') return ['hosts']
  if (kind === 'usage') return ['host-usage']
  if (kind === 'alert') return ['alerts']
  // Hosts are shown with the number of their guests.
  return word === 'updated' ? ['guests'] : ['guests', 'hosts']
}

const ends: readonly string[] = ['done', 'failed', 'canceled']

/** Effects of a task that have no event of their own; for images also the progress. */
function effectsOf(word: string, { action, image_id: image }: Change['data']): readonly Topic[] {
  if (image !== undefined && image !== '') return ['images']
  if (!ends.includes(word)) return []
  const subject = String(action).split('-')[0]
  if (subject === 'snapshot') return ['snapshots']
  if (subject === 'backup') return ['backups', 'snapshots']
  if (subject === 'swap') return ['hosts', 'host-usage']
  return subject === 'delete' || subject === 'reinstall' ? ['snapshots'] : []
}
