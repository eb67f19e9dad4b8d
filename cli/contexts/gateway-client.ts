import { BerthClient, type BerthEvent, type ClientOptions } from '../../client/index.js'
import { withSource, type GatewaySource } from '../gateway-source.js'

type Send = Parameters<BerthClient['send']>[0]

/** A client whose errors have the source of its connection. */
export class GatewayClient extends BerthClient {
  constructor(
    options: ClientOptions,
    private readonly source: GatewaySource,
  ) {
    super(options)
  }

  override send(request: Send): ReturnType<BerthClient['send']> {
    return super.send(request).catch((cause: unknown) => this.#fail(cause))
  }

  override read(request: Send): ReturnType<BerthClient['read']> {
    return super.read(request).catch((cause: unknown) => this.#fail(cause))
  }

  override open(request: Send): ReturnType<BerthClient['open']> {
    return super.open(request).catch((cause: unknown) => this.#fail(cause))
  }

  override async *events(options: Parameters<BerthClient['events']>[0]): AsyncGenerator<BerthEvent> {
    try {
      yield* super.events(options)
    } catch (cause) {
      this.#fail(cause)
    }
  }

  #fail(cause: unknown): never {
    throw withSource(cause, this.source)
  }
}
