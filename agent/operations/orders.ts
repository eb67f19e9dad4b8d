import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import type { OperationEngine } from './engine.js'
import type { OperationDefinition, OperationRecord, Subject, SubjectRef } from './types.js'

type WireOrder = NonNullable<SubmitOperationRequest['order']>
/** Names of the kinds of requests, from the protocol's `SubmitOperationRequest.order`. */
export type OrderName = WireOrder['$case']
export type OrderOf<Name extends OrderName> = Extract<WireOrder, { $case: Name }>['value']

/**
 * One kind of operation. It checks requests (`accept`), defines the steps and the end, and builds the response to a
 * request (`answer`). `Guest` is the type of a guest in the response.
 */
export interface OperationKind<Name extends OrderName, Input, Guest = never> extends OperationDefinition<Input> {
  /** Checks a request. Returns a promise only if the check must read the host. */
  accept(order: OrderOf<Name>, asked: OrderContext): AcceptedOrder<Input> | Promise<AcceptedOrder<Input>>
  /**
   * Returns the content of the response in addition to the task. A repeated request gets the same content, even if its
   * operation failed.
   * @param input input of the operation; undefined if the operation was removed
   */
  answer?(operation: OperationRecord, input: Input | undefined): OrderAnswer<Guest>
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- only the kind itself knows its input
export type OperationKinds<Guest> = { readonly [Name in OrderName]: OperationKind<Name, any, Guest> }

/** Circumstances of a request: its sender, and the present operations of its subject. */
export interface OrderContext {
  readonly operationId: string
  readonly requestedBy: string
  /** True if the agent itself submitted the request, for example to start a guest that should run. */
  readonly isSystem: boolean
  /** True if a forward-only operation of the subject, such as a deletion, is pending or running. */
  leaving(subject: SubjectRef): boolean
  /** True if an exclusive operation of the subject, such as a move to another host, is pending or running. */
  moving(subject: SubjectRef): boolean
}

/** A request that passed all checks except those in `reserve`. */
export interface AcceptedOrder<Input> {
  /** The guest or other subject of the operation. Other operations on it wait until this operation ends. */
  readonly subject: Subject
  /** Input for the steps, which is stored in the journal: plain JSON without secrets. */
  readonly input: Input
  /** Value that is equal in all repetitions of a request. Repetitions are recognized by its hash. Default: `input`. */
  readonly hashOf?: unknown
  /**
   * Makes checks and reservations in the transaction that stores the operation. Throws to refuse the request. Not
   * called for a repeated request.
   */
  reserve(): void
}

export interface OrderAnswer<Guest> {
  readonly guest?: Guest | undefined
  /** The SSH password that the operation sets. Empty: the operation sets no password. */
  readonly sshPassword?: string
}

export interface Order {
  readonly operationId: string
  readonly requestedBy: string
  readonly order: WireOrder
}

export interface SubmittedOrder<Guest> extends OrderAnswer<Guest> {
  readonly operation: OperationRecord
}

/** Checks and submits requests for operations. There is no other way to submit operations. */
export class Orders<Guest> {
  constructor(
    private readonly engine: OperationEngine,
    private readonly kinds: OperationKinds<Guest>,
  ) {}

  /**
   * Stores the request with its reservations and queues it. When the promise resolves, the request survives a power
   * loss.
   * @throws {BerthError} the errors of the kind's `accept`; `operation_conflict`, `host_offline`
   */
  async submit(order: Order): Promise<SubmittedOrder<Guest>> {
    const operation = this.#place(order, await this.#accept(order, false))
    const kind = this.kinds[order.order.$case] as OperationKind<OrderName, unknown, Guest>
    if (!kind.answer) return { operation }
    return { operation, ...kind.answer(operation, this.engine.store.findJournaled(operation.id)?.input) }
  }

  /**
   * Submits a request of the agent itself. The `accept` of the request's kind must not return a promise.
   * @throws {BerthError} the same errors as `submit`
   */
  submitNow(order: Order): OperationRecord {
    const accepted = this.#accept(order, true)
    if (accepted instanceof Promise)
      throw new Error(`the agent itself cannot submit operations of the kind ${order.order.$case}`)
    return this.#place(order, accepted)
  }

  #accept(
    { operationId, requestedBy, order: { $case, value } }: Order,
    isSystem: boolean,
  ): AcceptedOrder<unknown> | Promise<AcceptedOrder<unknown>> {
    const kind = this.kinds[$case] as OperationKind<OrderName, unknown, Guest>
    const leaving = (subject: SubjectRef): boolean => this.engine.leaving(subject)
    // During an exclusive operation, users' requests are refused. The agent's own requests wait in the queue.
    const moving = (subject: SubjectRef): boolean => !isSystem && this.engine.isExclusive(subject)
    return kind.accept(value, { operationId, requestedBy, isSystem, leaving, moving })
  }

  #place({ operationId, requestedBy, order }: Order, accepted: AcceptedOrder<unknown>): OperationRecord {
    const { action } = this.kinds[order.$case]
    return this.engine.submit({ id: operationId, action, requestedBy, ...accepted })
  }
}
