import type { ChangeSwapOrder } from '../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, conflict } from '../../shared/errors.js'
import { oneOf } from '../../shared/field-checks.js'
import { checkSwapMb, swapActions } from '../../shared/swap-rules.js'
import type { OperationKind } from '../operations/orders.js'
import type { Subject } from '../operations/types.js'
import type { HostSwap } from './contract.js'
import { checkSpace, planSwapChange, type SwapChange, type SwapWish } from './plan.js'
import { swapSteps } from './steps.js'

const mib = 1024 ** 2

export const swapSubject: Subject = { kind: 'swap', id: 'host', name: '', number: 0 }

export interface SwapKindParts {
  readonly swap: HostSwap
  /** True if a swap operation is pending or running. */
  readonly busy: () => boolean
}

/** Defines the swap operation. Only one change can run at a time, because each is planned from the present state. */
export function swapKind({ swap, busy }: SwapKindParts): OperationKind<'changeSwap', SwapChange | null> {
  let ended = 0
  return {
    action: 'swap',
    accept: async (order) => {
      const wish = parseWish(order)
      const before = ended
      const [planned, room] = await Promise.all([plan(swap, wish), swap.readRoom()])
      const change = planned instanceof BerthError ? null : planned
      const reserve = (): void => {
        if (busy() || ended !== before)
          throw conflict('task_running', 'the swap is already being changed: try again later')
        if (planned instanceof BerthError) throw planned
        const isMade = planned.from?.slot !== planned.to.slot
        if (isMade) checkSpace(room, planned.to.sizeBytes)
      }
      return { subject: swapSubject, input: change, hashOf: wish, reserve }
    },
    steps: swapSteps(swap),
    settle: () => void ended++, // `reserve` refuses a change that was planned before this change ended
  }
}

/**
 * Plans a change. Returns a refusal instead of throwing it. `reserve` throws the refusal for a new request. A repeated
 * request gets the recorded answer, even if the change is not possible any more.
 */
async function plan(swap: HostSwap, wish: SwapWish): Promise<SwapChange | BerthError> {
  try {
    return planSwapChange(wish, await swap.read())
  } catch (error) {
    if (error instanceof BerthError) return error
    throw error
  }
}

/** Parses a requested change. @throws {BerthError} `invalid_field` */
function parseWish({ action: word, sizeMb }: ChangeSwapOrder): SwapWish {
  const action = oneOf('action', word, swapActions)
  const isSized = action === 'create' || action === 'resize'
  return { action, sizeBytes: isSized ? checkSwapMb(sizeMb) * mib : 0 }
}
