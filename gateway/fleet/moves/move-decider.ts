import { KeyedSingleFlight, SingleFlight } from '../../../shared/async/single-flight.js'
import { describeError } from '../../../shared/errors.js'
import { findReported } from '../reported-guests.js'
import type { Announcer, AnnouncerOptions } from './announcer.js'
import { LostMoves } from './lost-moves.js'
import type { MoveDecision, MoveStore, StoredMove } from './move-store.js'
import type { OwnerConfirmations } from './owner-confirmations.js'
import { planAnnounced, planMoveStep, type MoveFacts } from './plan-move.js'

const workEveryMs = 1000

export interface MoveDeciderOptions extends Pick<AnnouncerOptions, 'view' | 'watched' | 'log'> {
  readonly announcer: Pick<Announcer, 'appointOwner' | 'dismissOther' | 'fence'>
  readonly moves: MoveStore
  readonly evacuator: { settleAll(): Promise<void> }
  readonly confirmations: Pick<OwnerConfirmations, 'work' | 'settled'>
}

/**
 * Continues moves that any gateway has begun. Decides which host owns the guest, and announces the decision to both
 * hosts.
 */
export class MoveDecider {
  readonly #working = new SingleFlight()
  /** Announcements in progress, by uuid of the moved guest or id of a host. A slow host delays no other moves. */
  readonly #announcing = new KeyedSingleFlight<string>()
  #timer: NodeJS.Timeout | undefined
  #unlisten: (() => void) | undefined
  readonly #lost = new LostMoves()
  #isDirty = false

  constructor(private readonly options: MoveDeciderOptions) {}

  start(): void {
    this.#timer = setInterval(() => this.#wake(), workEveryMs)
    this.#unlisten = this.options.view.changes.listen((change) => {
      const isOfMove = change.kind === 'task' && change.after?.operation.action === 'migrate'
      if (isOfMove || (change.kind === 'guest' && change.after?.guest.ownership?.role === 'handed_over')) this.#wake()
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#unlisten?.()
    await this.#working.settled()
    await this.options.confirmations.settled()
    await Promise.all(this.#announcing.keys.map((uuid) => this.#announcing.settled(uuid)))
  }

  #wake(): void {
    this.#isDirty = true
    void this.#working.run(() => this.#workAll())
  }

  async #workAll(): Promise<void> {
    while (this.#isDirty) {
      this.#isDirty = false
      try {
        this.options.confirmations.work()
        const hosts = [...this.options.view.states()]
        const outdated = hosts.map(({ record, outdated }) => ({ record, copies: [...outdated] }))
        const moves = await this.options.moves.list()
        await Promise.all(moves.map((move) => this.#work(move)))
        void this.#announcing.run('evacuations', () => this.#settleEvacuations())
        for (const lost of this.#lost.find(hosts, moves, performance.now())) await this.options.moves.recover(lost)
        for (const { record, copies } of outdated)
          if (copies.length > 0)
            void this.#announcing.run(record.id, () => this.options.announcer.fence(record.id, copies, moves))
      } catch (error) {
        this.options.log.debug(
          { reason: describeError(error) },
          'could not continue the moves of containers; trying again later',
        )
      }
    }
  }

  async #settleEvacuations(): Promise<void> {
    try {
      await this.options.evacuator.settleAll()
    } catch (error) {
      this.options.log.debug(
        { reason: describeError(error) },
        'could not continue the evacuations of containers; trying again later',
      )
    }
  }

  async #work(move: StoredMove): Promise<void> {
    const step = planMoveStep(move, this.#factsOf(move))
    if (step === 'wait') return
    if (step === 'announce') return void this.#announcing.run(move.uuid, () => this.#announce(move))
    await this.#decide(move, step)
  }

  async #decide(move: StoredMove, decision: MoveDecision): Promise<void> {
    const { moves, log } = this.options
    if (!(await moves.decide(move, decision))) return
    log.info(
      { guest: move.uuid, move: move.id, from: move.fromHostId, to: move.toHostId },
      `a move was decided: ${decision}`,
    )
    this.#wake()
  }

  #factsOf({ id, uuid, fromHostId, toHostId }: StoredMove): MoveFacts {
    const { view, watched } = this.options
    const host = view.findState(fromHostId)
    const guest = host && findReported(host, uuid)
    return {
      source: guest && (guest.ownership ?? { role: 'owner', moveId: '' }),
      operation: view.findOperation(id)?.operation.status,
      isSourceOnline: host?.online ?? false,
      isSourceRemoved: watched.isRemoved(fromHostId),
      isTargetOnline: view.findState(toHostId)?.online ?? false,
      nowMs: Date.now(),
    }
  }

  /** Announces the owner, first to the owner itself and then to the other host, which then deletes its copy. */
  async #announce(move: StoredMove): Promise<void> {
    const { moves, log } = this.options
    try {
      if (!(await moves.confirmDecided(move))) return
      const step = planAnnounced(move, await this.options.announcer.appointOwner(move), this.#factsOf(move))
      if (step === 'wait') return
      if (step === 'return') return await this.#decide(move, 'return')
      if (step === 'tell') await this.options.announcer.dismissOther(move)
      await moves.forget(move)
    } catch (error) {
      log.debug({ guest: move.uuid, reason: describeError(error) }, 'could not announce the owner of a container')
    }
  }
}
