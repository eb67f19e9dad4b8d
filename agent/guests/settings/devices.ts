import type { DevicesChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { parseGuestDevices } from '../../../shared/guest-devices.js'
import { checkDevices } from '../resources/devices.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { noteForStart } from '../steps.js'
import { changeGuest, type Target } from './change.js'

/**
 * Allows the guest exactly these devices. Takes effect at the guest's next start or reboot.
 * @throws {BerthError} `invalid_field`, `unsupported`, and the errors of `changeGuest`
 */
export function setDevices(context: GuestContext, target: Target, { names }: DevicesChange): Promise<GuestRecord> {
  const { store } = context
  let isChanged = false
  return changeGuest(context, target, {
    write: ({ uuid, devices: old, spec }) => {
      const devices = parseGuestDevices(names)
      checkDevices(devices, spec.virtualization)
      isChanged = devices.join() !== old.join()
      store.update(uuid, { devices })
      return () => store.update(uuid, { devices: old })
    },
    apply: async (record) => {
      // `resize` also writes the list of devices to the guest's configuration.
      const resized = await context.machines.driverOf(record).resize(context.machines.of(record))
      if (resized.outcome === 'refused') throw resized.error
      const later = resized.outcome === 'applied'
      if (isChanged) noteForStart(store, record.uuid, { change: 'devices', later })
    },
  })
}
