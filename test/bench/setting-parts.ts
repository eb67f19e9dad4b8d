import { setTimeout as pause } from 'node:timers/promises'
import type { BerthApi } from './berth-api.js'
import { figure, median, timed, type Figure } from './figures.js'
import { restMs } from './network-plan.js'

interface Mapping {
  readonly host_port: number
}

/**
 * Measures the parts of a change of port mappings. Each request includes one more part than the previous request. The
 * cost of this part is the difference between the durations of the two requests.
 * @param path API path of a running guest; its mappings are unchanged at the end
 */
export async function benchSettingParts(api: BerthApi, path: string, rounds: number): Promise<Figure[]> {
  const mappings = `${path}/port-mappings`
  const post = (body: unknown): Promise<Mapping[]> => api.call('POST', mappings, body)
  const before = await post({ container_port: 80 })
  const taken = before.at(-1)!.host_port
  let index = 0
  const requests: Record<string, () => Promise<unknown>> = {
    'GET of a guest: HTTP, key, limits': () => api.call('GET', path),
    'rejected by the gateway: + body, validation': () => refused(post({ container_port: 0 })),
    'rejected by the agent: + two audit entries, gRPC': () => refused(post({ container_port: 80, host_port: taken })),
    'carried out: + journal, nft, event': async () => (index = (await post({ container_port: 80 })).length - 1),
    'carried out: DELETE': () => api.call('DELETE', `${mappings}/${index}`),
  }
  const times = new Map(Object.keys(requests).map((name): [string, number[]] => [name, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [name, work] of Object.entries(requests)) {
      const ms = await timed(work)
      if (round >= 0) times.get(name)!.push(ms)
      await pause(restMs)
    }
  }
  await api.call('DELETE', `${mappings}/${before.length - 1}`)
  return [...times].map(([name, all]) => figure(name, 'ms', { Berth: median(all) }))
}

/** Waits for a refusal. @throws {Error} if the request succeeds */
async function refused(request: Promise<unknown>): Promise<void> {
  const done = await request.then(
    () => true,
    () => false,
  )
  if (done) throw new Error('a request that should be rejected was carried out')
}
