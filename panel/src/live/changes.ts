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
  | 'host-usage'
  /** Measurements for which the gateway sends no events. Pages read them periodically. */
  | 'usage'

/** Topics without events of their own. Their data is read again when the user returns to the window. */
export const untold: readonly Topic[] = ['images', 'snapshots', 'backups', 'accounts', 'webhooks', 'usage']

/** An event of the stream, with the data that it affects. */
export interface Change {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  /** Topics that the event can affect. */
  readonly topics: readonly Topic[]
  /** Id of the affected guest. 0: the event concerns no guest or several guests. */
  readonly guest: number
}

/**
 * Returns a filter that passes changes of one guest, and changes without a guest id.
 * @param id returns the id of the guest; 0: all changes pass
 */
export function concernsGuest(id: () => number): (change: Change) => boolean {
  return ({ guest }) => guest === 0 || id() === 0 || guest === id()
}

/** Parses an event of the stream. @param text the `data` field of the event */
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
  if (kind === 'maintenance') return ['guests', 'hosts']
  // A new or removed guest also changes the number of guests of its host.
  return word === 'updated' ? ['guests'] : ['guests', 'hosts']
}

const ends: readonly string[] = ['done', 'failed', 'canceled']

/** Returns further topics that a task's event affects. Only tasks on images affect topics before the task ends. */
function effectsOf(word: string, { action, image_id: image }: Change['data']): readonly Topic[] {
  if (image !== undefined && image !== '') return ['images']
  if (!ends.includes(word)) return []
  const subject = String(action).split('-')[0]
  if (subject === 'snapshot') return ['snapshots']
  if (subject === 'backup') return ['backups', 'snapshots']
  if (subject === 'swap') return ['hosts', 'host-usage']
  return subject === 'delete' || subject === 'reinstall' ? ['snapshots'] : []
}
