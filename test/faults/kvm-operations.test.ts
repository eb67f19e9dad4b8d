import type { GuestAction } from '../support/guests/matrix-orders.js'
import { powerCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixMachine } from '../support/guests/matrix-guests.js'

/* What both drivers do in the same steps is tried for containers alone. */
const own: readonly GuestAction[] = ['create', 'start', 'stop', 'delete']

describeGuestMatrix('operations of virtual machines', {
  tag: 'vm',
  guest: matrixMachine,
  cases: powerCases.filter(({ action }) => own.includes(action)),
})
