import { bootCases, diskCases, powerCases, titleOf } from '../support/guests/guest-matrix-cases.js'
import { prepareInMemory } from '../support/memory/memory-matrix.js'
import { describeOperationMatrix } from '../support/operations/operation-matrix.js'

/*
 * Injects every fault into every step of the operations on a guest, its disk and its boot source, on a simulated host.
 * test/faults/guest-*.test.ts and kvm-*.test.ts inject one fault into each step on a real host.
 */
describe('operations on guests, with a simulated host', () => {
  for (const { action, before, ...options } of [...powerCases, ...diskCases, ...bootCases])
    describeOperationMatrix(titleOf({ action, before }), {
      ...options,
      prepare: () => prepareInMemory(action, before),
    })
})
