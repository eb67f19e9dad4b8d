import { diskCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixMachine } from '../support/guests/matrix-guests.js'

describeGuestMatrix('operations on virtual machines, on a real host', {
  tag: 'vmd',
  guest: matrixMachine,
  cases: diskCases.filter(({ before }) => before === 'running'),
})
