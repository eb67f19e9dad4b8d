import type { GuestAction } from '../support/guests/matrix-orders.js'
import { powerCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixMachine } from '../support/guests/matrix-guests.js'

/* Steps that both drivers share are tested only for containers. */
const own: readonly GuestAction[] = ['create', 'start', 'stop', 'delete']

describeGuestMatrix('operations of virtual machines', {
  tag: 'vm',
  guest: matrixMachine,
  cases: powerCases.filter(({ action }) => own.includes(action)),
})
