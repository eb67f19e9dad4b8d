import { expect } from 'chai'
import { createGuest, createRequest, plainSpec } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'

describe('the creation of a guest', function () {
  it('is rejected if its disk is larger than the pool', async () => {
    const agent = await AgentProcess.create('d')
    try {
      await agent.start()
      await agent.ready()
      const operations = agent.operations()
      const limits = { ...plainSpec.limits!, diskGb: 9 } // the pool has 8 GiB
      const refused = await createGuest(operations, createRequest(1, 'large', { limits })).then(
        () => 'made',
        (error: Error) => error.message,
      )
      expect(refused).to.contain('the storage pool of the host has only 8.0 GiB')
    } finally {
      await agent.destroy()
    }
  })
})
