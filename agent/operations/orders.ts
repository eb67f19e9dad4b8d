import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import type { GuestRecord } from '../guests/record.js'
import type { OperationEngine } from './engine.js'
import type { OperationDefinition, OperationRecord, Subject, SubjectRef } from './types.js'

type WireOrder = NonNullable<SubmitOperationRequest['order']>
/** Kinds of operations that can be ordered: the cases of `SubmitOperationRequest.order`. */
export type OrderName = WireOrder['$case']
export type OrderOf<Name extends OrderName> = Extract<WireOrder, { $case: Name }>['value']

/**
 * One kind of operation, from its order to its end: what it takes and reserves (`accept`), its steps, how it
 * settles, and what its submission answers beside the task.
 */
export interface OperationKind<Name extends OrderName, Input> extends OperationDefinition<Input> {
  /** Checks what was sent. A promise where the host has to be read before anything is reserved. */
  accept(order: OrderOf<Name>, asked: Asked): Accepted<Input> | Promise<Accepted<Input>>
  /**
   * The same for a repeated order, whatever became of the operation.
   * @param input undefined: the operation was removed since
   */
  answer?(operation: OperationRecord, input: Input | undefined): OrderAnswer
}

/** A kind for each order there is. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each kind knows its input alone
export type OperationKinds = { readonly [Name in OrderName]: OperationKind<Name, any> }

/** Around an order. */
export interface Asked {
  readonly operationId: string
  readonly requestedBy: string
  /** By the agent itself, for what should run. */
  readonly isSystem: boolean
  /** What is only tried forward, as a deletion, is pending or running for the subject. */
  leaving(subject: SubjectRef): boolean
}

/** An order that passed every check that needs no transaction. */
export interface Accepted<Input> {
  /** What the operation locks. */
  readonly subject: Subject
  /** Journaled: plain JSON without secrets. */
  readonly input: Input
  /** What tells a repetition from another order; default `input`. */
  readonly hashOf?: unknown
  /**
   * Writes and checks in the transaction that journals the operation; what it throws refuses the order. Not called
   * for a repeated one.
   */
  reserve(): void
}

export interface OrderAnswer {
  readonly guest?: GuestRecord | undefined
  /** Empty: none. */
  readonly sshPassword?: string
}

export interface Order {
  readonly operationId: string
  readonly requestedBy: string
  readonly order: WireOrder
}

export interface Submitted extends OrderAnswer {
  readonly operation: OperationRecord
}

/** The one door through which operations are ordered. */
export class Orders {
  constructor(
    private readonly engine: OperationEngine,
    private readonly kinds: OperationKinds,
  ) {}

  /**
   * Journals what is ordered with all that it reserves and queues it; durable when this resolves.
   * @throws {BerthError} what the kind refuses; `operation_conflict`, `host_offline`
   */
  async submit(order: Order): Promise<Submitted> {
    const operation = this.#place(order, await this.#accept(order, false))
    const kind = this.kinds[order.order.$case] as OperationKind<OrderName, unknown>
    if (!kind.answer) return { operation }
    return { operation, ...kind.answer(operation, this.engine.store.findJournaled(operation.id)?.input) }
  }

  /**
   * By the agent itself, before anything else happens.
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
  ): Accepted<unknown> | Promise<Accepted<unknown>> {
    const kind = this.kinds[$case] as OperationKind<OrderName, unknown>
    const leaving = (subject: SubjectRef): boolean => this.engine.leaving(subject)
    return kind.accept(value, { operationId, requestedBy, isSystem, leaving })
  }

  #place({ operationId, requestedBy, order }: Order, accepted: Accepted<unknown>): OperationRecord {
    const { action } = this.kinds[order.$case]
    return this.engine.submit({ id: operationId, action, requestedBy, ...accepted })
  }
}
