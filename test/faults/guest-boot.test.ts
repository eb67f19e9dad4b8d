import { bootCases } from '../support/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guest-matrix-files.js'
import { matrixContainer } from '../support/matrix-guests.js'

describeGuestMatrix('what guests boot', { tag: 'mb', guest: matrixContainer, cases: bootCases })
