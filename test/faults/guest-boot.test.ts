import { bootCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixContainer } from '../support/guests/matrix-guests.js'

describeGuestMatrix('on a real host with containers', { tag: 'mb', guest: matrixContainer, cases: bootCases })
