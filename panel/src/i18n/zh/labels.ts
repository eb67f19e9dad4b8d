import type { labels as english } from '../en/labels.ts'

export const labels: Readonly<Record<keyof typeof english, string>> = {
  'labels.title': '标签与保护',
  'labels.tags': '标签',
  'labels.tagsHint': '以空格分隔，可用小写字母、数字、连字符、下划线、句点和冒号。客户可以看到标签。',
  'labels.note': '备注',
  'labels.noteHint': '仅管理员可见。',
  'labels.protected': '删除保护',
  'labels.protectedHint': '开启后，实例不能被删除或重装。',
  'labels.isProtected': '已开启删除保护',
  'labels.tagged': '显示带有标签 {{tag}} 的实例',
  'labels.anyTag': '全部标签',
  'delete.protected': '{{name}} 受到保护',
  'delete.protectedText': '此实例无法删除。请先在其设置中关闭“删除保护”。',
  'delete.askProvider': '此实例无法删除。请联系服务商解除保护。',
  'delete.openSettings': '打开设置',
}
