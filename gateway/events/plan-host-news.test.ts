import { expect } from 'chai'
import type { HostView } from '../fleet/contract.js'
import { FleetState } from '../fleet/view.js'
import { planHostNews } from './plan-host-news.js'

/** Hosts of a gateway that has just started. */
function hosts(state: HostView['state'], name = 'a'): HostView[] {
  const view = new FleetState()
  const serials = state === 'pending' ? [] : ['1']
  const host = { id: 'a', version: 1, name, address: 'a:1', draining: false, createdAtMs: 0, certificateNotAfterMs: 1 }
  view.setOnline(view.setHost({ ...host, serials }), state === 'online')
  return view.hosts()
}

const position = (online: boolean) => new Map([['a', { id: 'a', name: 'a', online, epoch: 'e', revision: 1 }]])

describe('the list of host changes from the time when no gateway ran', () => {
  for (const [title, former, now, expected] of [
    ['is empty if no host has changed', position(true), hosts('online'), []],
    ['does not include a host that has not joined', position(false), hosts('pending'), []],
    ['includes a host that went offline', position(true), hosts('offline'), [['online', 'offline']]],
    ['includes a host that came online', position(false), hosts('online'), [['offline', 'online']]],
    ['includes a host that was added', new Map(), hosts('online'), [[undefined, 'online']]],
    ['includes a host that was removed', position(true), [], [['online', undefined]]],
    ['includes a host that was renamed', position(true), hosts('online', 'b'), [['online', 'online']]],
  ] as const)
    it(title, () => {
      const states = planHostNews(former, now).map(({ before, after }) => [before?.state, after?.state])
      expect(states).to.deep.equal(expected)
    })
})
