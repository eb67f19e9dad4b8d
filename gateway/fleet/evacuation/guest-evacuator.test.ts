import { expect } from 'chai'
import { GuestEvacuator, type GuestEvacuatorOptions } from './guest-evacuator.js'

describe('an evacuation whose restore has failed', () => {
  for (const [name, isRemoved, expected] of [
    ['is forgotten if the failed host was removed from the fleet', true, ['u1']],
    ['is stored until the failed host returns', false, []],
  ] as const)
    it(name, async () => {
      const forgotten: string[] = []
      const options = {
        view: { findState: () => undefined },
        watched: { isRemoved: () => isRemoved },
        evacuations: {
          list: async () => [{ id: 'e1', uuid: 'u1', fromHostId: 'a', toHostId: 'b', isReinstated: true }],
          forget: async ({ uuid }: { uuid: string }) => void forgotten.push(uuid),
        },
      }
      await new GuestEvacuator(options as unknown as GuestEvacuatorOptions).settleAll()
      expect(forgotten).to.deep.equal(expected)
    })
})
