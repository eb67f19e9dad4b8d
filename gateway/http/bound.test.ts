import { expect } from 'chai'
import { missingTask } from './bound.js'

const id = '11111111-1111-4111-8111-111111111111'

describe('a task that was not found', () => {
  for (const [name, task, states, expected] of [
    ['does not exist if all hosts are online', id, ['online', 'online'], 'not_found'],
    ['is possibly on an offline host', id, ['online', 'offline'], 'host_offline'],
    ['is not on a host that has not joined', id, ['online', 'pending'], 'not_found'],
    ['does not exist if no host can have its id', 'a', ['offline'], 'not_found'],
  ] as const)
    it(name, () => {
      const hosts = states.map((state) => ({ state }))
      expect(missingTask(hosts, task).code).to.equal(expected)
    })
})
