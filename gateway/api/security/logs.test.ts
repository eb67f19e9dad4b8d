import { expect } from 'chai'
import { notFound } from '../../../shared/errors.js'
import type { Principal } from '../../access/principal.js'
import { securityLogRoute } from './logs.js'

describe('logs of several hosts', () => {
  const log = (atMs: number, guestUuid: string) => ({
    srcIp: '',
    dstIp: '',
    srcPort: 0,
    dstPort: 0,
    protocol: '',
    state: '',
    atMs,
    guestUuid,
  })
  const fleet = {
    view: {
      hosts: () => ['old', 'b', 'c'].map((id) => ({ id, state: 'online' })),
      findHost: (id: string) => ({ id, state: 'online' }),
      findGuest: (uuid: string) => ({ hostId: uuid, guest: { id: 1, name: uuid, uuid } }),
    },
    agent: (id: string) => ({
      security: {
        getSecurityLogs: async () => {
          if (id === 'old') throw notFound('guest')
          return { logs: [log(id === 'b' ? 1 : 2, id)] }
        },
      },
    }),
  }
  const time = { format: String }
  const read = async (query: object): Promise<string> => {
    const caller = { guests: 'all' } as Principal
    const logs = securityLogRoute({ fleet, time } as never)
    const answer = (await logs.handle({ caller, query } as never)) as { data: { host_id: string }[] }
    return answer.data.map(({ host_id: id }) => id).join()
  }

  it('are sorted with the newest entry first, and contain no entries of hosts that answer with an error', async () =>
    expect(await read({})).to.equal('c,b'))
  it('cause an error if the requested host answers with an error', async () =>
    expect(await read({ host_id: 'old' }).catch((error: { code: string }) => error.code)).to.equal('not_found'))
})
