import { GuestMatrixHost } from './guest-matrix.js'
import type { MatrixCase } from './guest-matrix-cases.js'
import type { MatrixGuest } from './matrix-guests.js'
import { describeOperationMatrix } from '../operations/operation-matrix.js'

/**
 * Kills the agent after every step of some operations on guests and after its undo, and fails an early step of some,
 * with real LXC or QEMU, btrfs and nft. After each case the host must match the journal, read without the agent's code.
 * test/operations/guest-matrix.test.ts tries every other fault, on a host in memory.
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
