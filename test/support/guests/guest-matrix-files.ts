import { GuestMatrixHost } from './guest-matrix.js'
import type { MatrixCase } from './guest-matrix-cases.js'
import type { MatrixGuest } from './matrix-guests.js'
import { describeOperationMatrix } from '../operations/operation-matrix.js'

/**
 * Tests some operations on guests with real LXC or QEMU, btrfs and nft. It kills the agent after each step and after
 * its undo, and for some operations lets an early step fail. After each case the state of the host, which is read
 * without the agent's code, must match the journal. test/operations/guest-matrix.test.ts tries every other fault, on a
 * host in memory.
 * @param tag as for `agentConfig`
 * @param more tests on the same host
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
      describeOperationMatrix(`${action}, ${state} before`, {
        ...options,
        faults: 'one',
        prepare: () => host.prepare(action, state),
      })
  })
}
