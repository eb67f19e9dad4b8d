/** What pages show. */
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
  /** Readings of hosts, which tell them by themselves. */
  | 'host-usage'
  /** Readings that have to be asked for: each page that shows some asks now and then. */
  | 'usage'

/** Topics whose changes the gateway does not tell: they are read again when somebody comes back to the window. */
export const untold: readonly Topic[] = ['images', 'snapshots', 'backups', 'accounts', 'webhooks', 'usage']

/** A change as the stream tells it. */
export interface Change {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  /** What may look different. */
  readonly topics: readonly Topic[]
  /** Id of the guest that it is about; 0: none, or several. */
  readonly guest: number
}

/** Whether a change is of that guest, or of no guest alone. @param id 0: any */
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

/** What a task leaves behind that nothing else tells; of images also how far they are. */
function effectsOf(word: string, { action, image_id: image }: Change['data']): readonly Topic[] {
  if (image !== undefined && image !== '') return ['images']
  if (!ends.includes(word)) return []
  const subject = String(action).split('-')[0]
  if (subject === 'snapshot') return ['snapshots']
  if (subject === 'backup') return ['backups', 'snapshots']
  if (subject === 'swap') return ['hosts', 'host-usage']
  return subject === 'delete' || subject === 'reinstall' ? ['snapshots'] : []
}
