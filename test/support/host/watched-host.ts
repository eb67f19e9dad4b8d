import type { ClientReadableStream } from '@grpc/grpc-js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Alert } from '../../../proto/gen/berth/agent/v1/security.js'
import type { WatchResponse, WatchServiceClient } from '../../../proto/gen/berth/agent/v1/watch.js'

/** The guests and alerts of an agent, as a client of its watch sees them. */
export class WatchedHost {
  readonly #guests = new Map<string, Guest>()
  readonly #alerts = new Map<string, Alert>()
  readonly #stream: ClientReadableStream<WatchResponse>

  constructor(private readonly client: WatchServiceClient) {
    this.#stream = client.watch({ epoch: '', revision: 0, acceptsGuestBatches: false })
    this.#stream.on('error', () => undefined) // the stream fails when a test kills the agent
    this.#stream.on('data', ({ event }: WatchResponse) => {
      if (event?.$case === 'reset') this.#guests.clear()
      if (event?.$case === 'guest') this.#guests.set(event.value.uuid, event.value)
      if (event?.$case === 'alert') this.#alerts.set(event.value.id, event.value)
      if (event?.$case === 'removed') this.#guests.delete(event.value.key)
    })
  }

  guests(): Guest[] {
    return [...this.#guests.values()]
  }

  alerts(): Alert[] {
    return [...this.#alerts.values()]
  }

  close(): void {
    this.#stream.cancel()
    this.client.close()
  }
}
