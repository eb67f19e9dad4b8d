import { diskCases } from '../support/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guest-matrix-files.js'
import { matrixMachine } from '../support/matrix-guests.js'

describeGuestMatrix('new disks of virtual machines', {
  tag: 'vmd',
  guest: matrixMachine,
  cases: diskCases.filter(({ before }) => before === 'running'),
})
