import { diskCases } from '../support/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guest-matrix-files.js'
import { matrixContainer } from '../support/matrix-guests.js'

describeGuestMatrix('new disks of guests', { tag: 'md', guest: matrixContainer, cases: diskCases })
