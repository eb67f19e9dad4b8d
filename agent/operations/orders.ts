import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import type { OperationEngine } from './engine.js'
import type { OperationDefinition, OperationRecord, Subject, SubjectRef } from './types.js'

type WireOrder = NonNullable<SubmitOperationRequest['order']>
/** Names of the orders: the cases of `SubmitOperationRequest.order`. */
export type OrderName = WireOrder['$case']
export type OrderOf<Name extends OrderName> = Extract<WireOrder, { $case: Name }>['value']

/**
 * One kind of operation, from order to end: how orders are accepted (`accept`), its steps, how it settles, and the
 * answer to its submission in addition to the task. `Guest` is the form of a guest in the answer.
 */
export interface OperationKind<Name extends OrderName, Input, Guest = never> extends OperationDefinition<Input> {
  /** Checks the order. Returns a promise if the host must be read before anything is reserved. */
  accept(order: OrderOf<Name>, asked: OrderContext): AcceptedOrder<Input> | Promise<AcceptedOrder<Input>>
  /**
   * Answers an order. A repeated order gets the same answer, whatever became of its operation.
   * @param input undefined: the operation was removed since
   */
  answer?(operation: OperationRecord, input: Input | undefined): OrderAnswer<Guest>
}

/** The kind for each order. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- only the kind itself knows its input
export type OperationKinds<Guest> = { readonly [Name in OrderName]: OperationKind<Name, any, Guest> }

/** Circumstances of an order. */
export interface OrderContext {
  readonly operationId: string
  readonly requestedBy: string
  /** True if the agent itself submitted the order, for a guest that should run. */
  readonly isSystem: boolean
  /** True if a forward-only operation of the subject, such as a deletion, is pending or running. */
  leaving(subject: SubjectRef): boolean
}

/** An order that passed every check that needs no transaction. */
export interface AcceptedOrder<Input> {
  /** The subject that the operation locks. */
  readonly subject: Subject
  /** Stored in the journal: plain JSON without secrets. */
  readonly input: Input
  /** Value that differs between different orders and is equal for a repetition; default `input`. */
  readonly hashOf?: unknown
  /**
   * Writes and checks in the transaction that journals the operation; an error refuses the order. Not called for a
   * repeated order.
   */
  reserve(): void
}

export interface OrderAnswer<Guest> {
  readonly guest?: Guest | undefined
  /** Empty: no password. */
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

/** The only way to submit operations. */
export class Orders<Guest> {
  constructor(
    private readonly engine: OperationEngine,
    private readonly kinds: OperationKinds<Guest>,
  ) {}

  /**
   * Stores the order with all its reservations in the journal and queues it; durable when this resolves.
   * @throws {BerthError} the kind's refusal; `operation_conflict`, `host_offline`
   */
  async submit(order: Order): Promise<SubmittedOrder<Guest>> {
    const operation = this.#place(order, await this.#accept(order, false))
    const kind = this.kinds[order.order.$case] as OperationKind<OrderName, unknown, Guest>
    if (!kind.answer) return { operation }
    return { operation, ...kind.answer(operation, this.engine.store.findJournaled(operation.id)?.input) }
  }

  /**
   * Submits an order of the agent itself synchronously.
   * @throws {BerthError} as `submit`
   */
  submitNow(order: Order): OperationRecord {
    const accepted = this.#accept(order, true)
    if (accepted instanceof Promise) throw new Error(`${order.order.$case} cannot be ordered at once`)
    return this.#place(order, accepted)
  }

  #accept(
    { operationId, requestedBy, order: { $case, value } }: Order,
    isSystem: boolean,
  ): AcceptedOrder<unknown> | Promise<AcceptedOrder<unknown>> {
    const kind = this.kinds[$case] as OperationKind<OrderName, unknown, Guest>
    const leaving = (subject: SubjectRef): boolean => this.engine.leaving(subject)
    return kind.accept(value, { operationId, requestedBy, isSystem, leaving })
  }

  #place({ operationId, requestedBy, order }: Order, accepted: AcceptedOrder<unknown>): OperationRecord {
    const { action } = this.kinds[order.$case]
    return this.engine.submit({ id: operationId, action, requestedBy, ...accepted })
  }
}
