import { GuestMatrixHost } from './guest-matrix.js'
import { titleOf, type MatrixCase } from './guest-matrix-cases.js'
import type { MatrixGuest } from './matrix-guests.js'
import { describeOperationMatrix } from '../operations/operation-matrix.js'

/**
 * Adds tests of operations on guests with real LXC or QEMU, btrfs and nft. They kill the agent after each step, and
 * after the undo of each step. For some operations, an early step fails. After each case, the agent's journal must
 * match the host's state, which is read without the agent's code. test/operations/guest-matrix.test.ts simulates all
 * other faults.
 * @param tag see `agentConfig`
 * @param more adds further tests on the same host
 */
export function describeGuestMatrix(
  title: string,
  { tag, guest, cases }: { tag: string; guest: MatrixGuest; cases: readonly MatrixCase[] },
  more?: (host: () => GuestMatrixHost) => void,
): void {
  describe(title, () => {
    let host: GuestMatrixHost

    before(async function () {
      host = await GuestMatrixHost.open(tag, guest)
    })
    after(async function () {
      await host?.close()
    })

    more?.(() => host)
    for (const { action, before: state, ...options } of cases)
      describeOperationMatrix(titleOf({ action, before: state }), {
        ...options,
        faults: 'one',
        prepare: () => host.prepare(action, state),
      })
  })
}
