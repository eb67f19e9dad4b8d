import { diskCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixContainer } from '../support/guests/matrix-guests.js'

describeGuestMatrix('operations on disks of containers', { tag: 'md', guest: matrixContainer, cases: diskCases })
