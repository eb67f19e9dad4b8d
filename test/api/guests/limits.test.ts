import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

type Row = Record<string, unknown>

describe('limits, expiry dates and traffic in the API', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })

  const put = (what: string, body: unknown) => gateway.request('PUT', `/containers/${guest.id}/${what}`, { body })
  const detail = async (): Promise<Row> => (await gateway.request('GET', `/containers/${guest.id}`)).body.data as Row
  const start = () => gateway.request('POST', `/containers/${guest.id}/start`)

  describe('the resource limits', () => {
    it('stay the same if a change omits them, and the answer contains only a message', async () => {
      const { status, body } = await put('resource-limit', { vcpu: 1.5, network_down_mbps: 100 })
      expect([status, body.success, body.data]).to.deep.equal([200, true, undefined])
      expect(body.message).to.be.a('string')
      expect(await detail()).to.include({
        vcpu: 1.5,
        ram_mb: 512,
        disk_gb: 10,
        network_down_mbps: 100,
        network_up_mbps: 0,
        io_read_mbps: 0,
      })
    })

    it('accept one rate for both directions, but a rate for a single direction takes precedence', async () => {
      await put('resource-limit', { network_bw_mbps: 50, network_up_mbps: 20, io_speed_mbps: 7 })
      expect(await detail()).to.include({
        network_down_mbps: 50,
        network_up_mbps: 20,
        io_read_mbps: 7,
        io_write_mbps: 7,
      })
      await put('resource-limit', { network_bw_mbps: 0 })
      expect(await detail()).to.include({ network_down_mbps: 0, network_up_mbps: 0, io_read_mbps: 7 })
    })

    it('stay unchanged if the request has empty values or unknown fields', async () => {
      const before = await detail()
      for (const body of [{}, [], { vcpu: 0, ram_mb: '0', io_read_mbps: null }, { disk_gb: '0', cpu_percent: 5 }])
        expect((await put('resource-limit', body)).body.message).to.equal('nothing to change')
      expect(await detail()).to.deep.equal(before)
    })

    it('ignore unsupported fields of a request, and the answer lists these fields', async () => {
      const nothing = (await put('resource-limit', { swap_mb: 99, cpu_percent: 5 })).body
      expect(nothing).to.deep.equal({
        success: true,
        message: 'nothing to change',
        data: { ignored: ['swap_mb', 'cpu_percent'] },
      })
      const some = (await put('resource-limit', { swap_mb: 99, io_read_mbps: 8 })).body
      expect([some.message, some.data]).to.deep.equal(['limits updated', { ignored: ['swap_mb'] }])
      expect((await put('traffic-limit', { quota: 1 })).body.data).to.deep.equal({ ignored: ['quota'] })
    })

    it('are rejected with 409 if they exceed the resources of the host', async () => {
      for (const body of [{ vcpu: 9 }, { ram_mb: 40_000 }]) {
        const { status, body: answer } = await put('resource-limit', body)
        expect([status, answer.code]).to.deep.equal([409, 'resource_exhausted'])
        expect(answer.details?.field).to.equal(Object.keys(body)[0])
      }
      expect(await detail()).to.include({ ram_mb: 512 })
    })

    describe('for the disk', () => {
      const gib = 1024 ** 3
      const bound = (): number | undefined => host().bounds.get(guest.uuid)
      const host = () => gateway.fleet.agentOf('host-a').host

      afterEach(() => {
        delete host().faults.resize
        host().pool = { totalBytes: 500 * gib, usedBytes: gib }
      })

      it('grow the disk of a running container', async () => {
        expect((await put('resource-limit', { disk_gb: '20' })).body.message).to.equal('limits updated')
        expect([bound(), (await detail()).disk_gb]).to.deep.equal([20 * gib, 20])
        expect((await put('resource-limit', { disk_gb: 20, vcpu: 0.5 })).status).to.equal(200)
        expect(await detail()).to.include({ disk_gb: 20, vcpu: 0.5 })
      })

      for (const [what, disk, usedGb, code] of [
        ['a disk smaller than the present disk', 9, 1, 'disk_shrink'],
        ['a disk larger than the pool', 501, 1, 'resource_exhausted'],
        ['a larger disk while the pool is full', 11, 499, 'resource_exhausted'],
      ] as const)
        it(`reject ${what}, and leave the other limits unchanged`, async () => {
          host().pool.usedBytes = usedGb * gib
          const { status, body } = await put('resource-limit', { disk_gb: disk, ram_mb: 1024 })
          expect([status, body.code, body.details?.field]).to.deep.equal([409, code, 'disk_gb'])
          expect(bound()).to.equal(undefined)
          expect(await detail()).to.include({ disk_gb: 10, ram_mb: 512 })
        })

      it('can be sent unchanged together with a new memory limit while the pool is full', async () => {
        host().pool.usedBytes = 499 * gib
        expect((await put('resource-limit', { disk_gb: 10, ram_mb: 1024 })).status).to.equal(200)
      })

      it('stay unchanged if the host cannot resize the disk', async () => {
        host().faults.resize = (_uuid, bytes) => {
          if (bytes === 20 * gib) throw new Error('no')
        }
        expect((await put('resource-limit', { disk_gb: 20 })).status).to.equal(502)
        expect([bound(), (await detail()).disk_gb]).to.deep.equal([10 * gib, 10])
      })
    })

    for (const [body, field] of [
      [{ disk_gb: -1 }, 'disk_gb'],
      [{ disk_gb: 65_537 }, 'disk_gb'],
      [{ vcpu: 0.01 }, 'vcpu'],
      [{ ram_mb: 16 }, 'ram_mb'],
      [{ ram_mb: 512.5 }, 'ram_mb'],
      [{ network_down_mbps: -1 }, 'network_down_mbps'],
      [{ network_bw_mbps: '10M' }, 'network_bw_mbps'],
      [{ io_read_mbps: [] }, 'io_read_mbps'],
    ] as const)
      it(`refuse the request body ${JSON.stringify(body)}`, async () => {
        const reply = await put('resource-limit', body)
        expect([reply.status, reply.body.details?.field]).to.deep.equal([400, field])
      })
  })

  describe('the expiry date', () => {
    for (const [text, shown] of [
      ['2030-05-01 12:00:00', '2030-05-01 12:00:00'],
      ['2030-05-01', '2030-05-01 23:59:59'],
      ['2030-05-01T12:00:00+02:00', '2030-05-01 10:00:00'],
      ['', ''],
    ] as const)
      it(`is shown as ${JSON.stringify(shown)} if it is set to ${JSON.stringify(text)}`, async () => {
        expect((await put('expiry', { expires_at: text })).status).to.equal(200)
        expect(await detail()).to.include({ expires_at: shown, policy_blocked: false })
      })

    it('is refused if it is missing, blank or not a time', async () => {
      for (const body of [
        { expires_at: 'tomorrow' },
        { expires_at: '2030-02-30' },
        { expires_at: 5 },
        { expires_at: '  ' },
        {},
      ])
        expect((await put('expiry', body)).body.details?.field, JSON.stringify(body)).to.equal('expires_at')
    })

    it('prevents starts after this date until the date is changed', async () => {
      await put('expiry', { expires_at: '2020-01-01' })
      expect(await detail()).to.include({ policy_blocked: true, policy_reason: 'expired' })
      for (const action of ['start', 'restart']) {
        const refused = await gateway.request('POST', `/containers/${guest.id}/${action}`)
        expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
      }
      expect((await gateway.request('POST', `/containers/${guest.id}/stop`)).status).to.equal(202)
      await put('expiry', { expires_at: '' })
      expect((await start()).status).to.equal(202)
    })

    it('prevents starts of a new container if it has already passed', async () => {
      const body = { name: 'over', template_id: 'debian-12', expires_at: '2020-01-01' }
      expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
      const isBlocked = async (): Promise<boolean> =>
        (await gateway.request('GET', '/containers/over')).body.data.policy_blocked === true
      await waitFor(isBlocked, { what: 'blocked' })
      const refused = await gateway.request('POST', '/containers/over/start')
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
    })

    it('can be set at the creation of a container', async () => {
      const body = { name: 'ends', template_id: 'debian-12', expires_at: '2031-01-01' }
      const { data } = (await gateway.request('POST', '/containers', { body })).body
      const row = (await gateway.request('GET', `/containers/${data.id}`)).body.data
      expect(row.expires_at).to.equal('2031-01-01 23:59:59')
    })
  })

  describe('the traffic of a container', () => {
    const gb = 1e9
    const read = async (): Promise<Row> =>
      (await gateway.request('GET', `/containers/${guest.id}/traffic`)).body.data as Row
    const use = (rxBytes: number, txBytes: number) => gateway.fleet.addTraffic(guest.uuid, { rxBytes, txBytes })

    it('is shown with every field', async () => {
      await put('traffic-limit', { traffic_mode: 'total', monthly_traffic_gb: 10 })
      await use(2 * gb, 0.5 * gb)
      expect(await read()).to.deep.equal({
        mode: 'total',
        limit_gb: 10,
        in_limit_gb: 0,
        out_limit_gb: 0,
        total_used_bytes: 2.5 * gb,
        rx_used_bytes: 2 * gb,
        tx_used_bytes: 0.5 * gb,
        used_pct: 25,
        reset_date: '2026-11',
        period_start: '2026-11-01',
        resets_at: '2026-12-01 00:00:00',
        utc_offset: '+00:00',
        action: 'stop',
      })
    })

    for (const [hour, minutes, offset, end] of [
      [-8, 480, '+08:00', '2026-12-01 00:00:00'],
      [3.5, -210, '-03:30', '2026-12-01 00:00:00'],
      [0, 99_999, '+14:00', '2026-12-01 14:00:00'],
      [0, -99_999, '-14:00', '2026-11-30 10:00:00'],
    ] as const)
      it(`is reset at midnight in the time zone ${offset} of the host, not of the gateway`, async () => {
        const { policy } = gateway.fleet.agentOf('host-a').domain
        const readUse = policy.readUse.bind(policy)
        const resetsAtMs = Date.UTC(2026, 11, 1) + hour * 3_600_000
        const period = { periodStart: '2026-11-01', resetsAtMs, utcOffsetMinutes: minutes }
        policy.readUse = (record) => ({ ...readUse(record), ...period })
        expect(await read()).to.include({ period_start: '2026-11-01', resets_at: end, utc_offset: offset })
        policy.readUse = readUse
      })

    it('is not limited by default', async () =>
      expect(await read()).to.include({ mode: 'total', limit_gb: 0, total_used_bytes: 0, used_pct: 0 }))

    it('has a limit for each direction in split mode, and shows the higher of the two percentages', async () => {
      for (const mode of ['split', 'in_out']) {
        await put('traffic-limit', { traffic_mode: mode, traffic_in_gb: 10, traffic_out_gb: 2 })
        expect(await read()).to.include({ mode: 'split', in_limit_gb: 10, out_limit_gb: 2 })
      }
      await use(3 * gb, 1 * gb)
      expect((await read()).used_pct).to.equal(50)
      expect(await detail()).to.include({ traffic_mode: 'split', traffic_in_gb: 10, traffic_out_gb: 2 })
    })

    it('keeps the settings that a change omits', async () => {
      const whole = { traffic_action: 'throttle', traffic_throttle_mbps: 5, traffic_reset_day: 15 }
      await put('traffic-limit', { monthly_traffic_gb: 3, ...whole })
      await put('traffic-limit', { monthly_traffic_gb: 4 })
      expect(await detail()).to.include({ traffic_mode: 'total', monthly_traffic_gb: 4, ...whole })
      const { status, body } = await put('traffic-limit', [])
      expect([status, body.data]).to.deep.equal([200, undefined])
    })

    for (const [body, field] of [
      [{ traffic_mode: 'both' }, 'traffic_mode'],
      [{ monthly_traffic_gb: -1 }, 'monthly_traffic_gb'],
      [{ traffic_in_gb: 1.5 }, 'traffic_in_gb'],
      [{ traffic_action: 'delete' }, 'traffic_action'],
      [{ traffic_reset_day: 32 }, 'traffic_reset_day'],
      [{ traffic_throttle_mbps: '5e1' }, 'traffic_throttle_mbps'],
    ] as const)
      it(`cannot have the setting ${JSON.stringify(body)}`, async () => {
        const reply = await put('traffic-limit', body)
        expect([reply.status, reply.body.details?.field]).to.deep.equal([400, field])
      })

    it('prevents starts when the quota is used up, until the quota is raised or the traffic is reset', async () => {
      await put('traffic-limit', { monthly_traffic_gb: 1 })
      await use(1 * gb, 0)
      expect(await detail()).to.include({ policy_blocked: true, policy_reason: 'traffic quota used up' })
      const refused = await start()
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
      expect(refused.body.message).to.contain('traffic quota')
      await put('traffic-limit', { monthly_traffic_gb: 2 })
      expect((await start()).status).to.equal(202)
      await put('traffic-limit', { monthly_traffic_gb: 1 })
      expect((await start()).status).to.equal(403)
      const reset = await gateway.request('POST', `/containers/${guest.id}/traffic-reset`, { body: [] })
      expect([reset.status, reset.body.data]).to.deep.equal([200, undefined])
      expect(await read()).to.include({ total_used_bytes: 0, used_pct: 0 })
      expect((await start()).status).to.equal(202)
    })

    it('is throttled or unlimited beyond the quota, depending on the field traffic_action', async () => {
      await put('traffic-limit', { monthly_traffic_gb: 1, traffic_action: 'throttle' })
      await use(2 * gb, 0)
      expect(await detail()).to.include({ policy_blocked: false, throttled: true })
      expect((await read()).used_pct).to.equal(200)
      await put('traffic-limit', { traffic_action: 'none' })
      expect(await detail()).to.include({ policy_blocked: false, throttled: false })
    })
  })
})
