import { diskCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixContainer } from '../support/guests/matrix-guests.js'

describeGuestMatrix('operations on containers, on a real host', { tag: 'md', guest: matrixContainer, cases: diskCases })
