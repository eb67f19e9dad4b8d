import { Type, type Static } from 'typebox'
import { Capabilities, type HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'

/** Fields that say how a host runs virtual machines, or why it does not. */
export const kvmFields = {
  kvm: Type.Boolean(),
  kvm_acceleration: Type.String(),
  kvm_reason: Type.String({
    description:
      'Reason why virtual machines, or their hardware acceleration, are not available. Empty: both are available.',
  }),
}

type KvmRow = { [Field in keyof typeof kvmFields]: Static<(typeof kvmFields)[Field]> }

export function kvmRow(description: Pick<HostDescription, 'capabilities'>): KvmRow {
  const { kvm, kvmAcceleration, drivers } = description.capabilities ?? Capabilities.create()
  const driver = drivers.find(({ kind }) => kind === 'kvm')
  return {
    kvm,
    kvm_acceleration: kvmAcceleration,
    kvm_reason: driver?.reason || driver?.accelerationReason || '',
  }
}
