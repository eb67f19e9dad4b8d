import type { GuestAction } from '../support/matrix-orders.js'
import { powerCases } from '../support/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guest-matrix-files.js'
import { matrixMachine } from '../support/matrix-guests.js'

/* What both drivers do in the same steps is tried for containers alone. */
const own: readonly GuestAction[] = ['create', 'start', 'stop', 'delete']

describeGuestMatrix('operations of virtual machines', {
  tag: 'vm',
  guest: matrixMachine,
  cases: powerCases.filter(({ action }) => own.includes(action)),
})
