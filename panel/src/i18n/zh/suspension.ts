import type { suspension as english } from '../en/suspension.ts'

export const suspension: Readonly<Record<keyof typeof english, string>> = {
  'suspend.action': '暂停',
  'suspend.ask': '暂停 {{name}}？',
  'suspend.text': '在解除暂停之前，任何人都不能启动、重启、重装或恢复该实例，也不能重置密码或打开控制台。',
  'suspend.reason': '原因',
  'suspend.reasonHint': '仅管理员可见。',
  'suspend.message': '消息',
  'suspend.messageHint': '客户可见。',
  'suspend.mode': '方式',
  'suspend.mode.stop': '停止实例',
  'suspend.mode.network': '保持运行但断开网络',
  'suspend.until': '截止时间',
  'suspend.untilHint': '留空表示直到手动解除。',
  'unsuspend.action': '解除暂停',
  'suspended.stop': '该实例已被暂停。',
  'suspended.network': '该实例已被暂停：正在运行，但没有网络。',
  'suspended.reason': '原因：{{reason}}',
  'suspended.until': '截至 {{time}}',
  'suspended.noStart': '已暂停的实例无法启动。',
  'status.suspended': '已暂停',
}
