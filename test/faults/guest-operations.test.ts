import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { powerCases } from '../support/guests/guest-matrix-cases.js'
import { describeGuestMatrix } from '../support/guests/guest-matrix-files.js'
import { matrixContainer } from '../support/guests/matrix-guests.js'

describeGuestMatrix(
  'operations on containers, on a real host',
  { tag: 'm', guest: matrixContainer, cases: powerCases },
  (host) => {
    it('operations are rejected after the deletion of the guest was requested, except repeated deletions', async () => {
      const subject = await host().prepare('delete', 'stopped')
      const [id, other] = [randomUUID(), randomUUID()]
      const { engine } = subject
      const inTime = subject.order('start', randomUUID())
      const asked = subject.order('delete', id)
      for (const action of ['start', 'stop', 'restart', 'delete'] as const) {
        const refusal = await subject.order(action, other).catch((error: unknown) => error)
        expect(refusal, action).to.include({ code: 'invalid_state' })
      }
      expect(await subject.order('delete', id)).to.deep.equal(await asked)
      expect(await engine.wait((await inTime).id)).to.include({ status: 'canceled', errorCode: 'superseded' })
      expect(await engine.wait(id)).to.include({ status: 'done' })
      expect(await subject.order('delete', id)).to.include({ id, status: 'done' })
      await subject.destroy()
    })
  },
)
