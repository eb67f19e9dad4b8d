import type { GuestAction } from '../support/guests/matrix-orders.js'
import { powerCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixMachine } from '../support/guests/matrix-guests.js'

/* Tests only actions whose steps differ between the drivers. Other actions are tested with containers. */
const own: readonly GuestAction[] = ['create', 'start', 'stop', 'delete']

describeGuestMatrix('operations on virtual machines, on a real host', {
  tag: 'vm',
  guest: matrixMachine,
  cases: powerCases.filter(({ action }) => own.includes(action)),
})
