//! The engine's register machine: rules compiled to instructions, for policies that are plain (`plain` says why only those).
//! Where it is not sure of an answer, the interpreter is asked.
use crate::check::Path;
use crate::eval::Limits;
use crate::load::{self, Loaded};
use crate::names;
use crate::plain::{self, Plain};
use regorus::Value;
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::instructions::LoopMode;
use regorus::rvm::program::RuleType;
use regorus::rvm::{Instruction, Program, RegoVM};
use regorus::utils::limits::ExecutionTimerConfig;
use std::sync::Arc;

pub struct Machine {
    vm: RegoVM,
    data: Value,
}

impl Machine {
    /// For one rule; none where the rule, or one that it uses, is not plain.
    pub fn compile(loaded: &Loaded, rule: &Path) -> Option<Machine> {
        if !plain::is_asked(&loaded.rules, rule) {
            return None;
        }
        let mut engine = load::new_engine();
        for (name, text) in &loaded.guarded {
            engine.add_policy(name.clone(), text.clone()).ok()?;
        }
        engine.add_data(loaded.data.clone()).ok()?;
        let entry = names::path_text(rule);
        let policy = engine.compile_with_entrypoint(&entry.as_str().into()).ok()?;
        let program = Compiler::compile_from_policy(&policy, &[&entry]).ok()?;
        let mut plain = Plain::new(engine.get_modules(), &loaded.rules);
        if !is_plain(&program, &mut plain) {
            return None;
        }
        Machine::create(program, loaded.data.clone())
    }

    fn create(program: Arc<Program>, data: Value) -> Option<Machine> {
        let mut vm = RegoVM::new();
        vm.load_program(program);
        vm.set_data(data.clone()).ok()?;
        vm.set_max_instructions(usize::MAX); // the limit is one of time
        Some(Machine { vm, data })
    }

    /// For another thread; shares the instructions and the data.
    pub fn again(&self) -> Option<Machine> {
        Machine::create(self.vm.get_program().clone(), self.data.clone())
    }

    /// The rule's value; none where the machine failed: then the interpreter knows why, or knows better.
    pub fn eval(&mut self, limits: &Limits, input: Value) -> Option<Value> {
        let timer = ExecutionTimerConfig { limit: limits.time, check_interval: crate::eval::STEPS };
        self.vm.set_execution_timer_config((!limits.time.is_zero()).then_some(timer));
        self.vm.set_input(input);
        self.vm.execute_entry_point_by_index(0).ok()
    }
}

/// Are all rules of the program plain, and is it made of the instructions that plain rules need, and no others? `%` is not
/// among them: it fails for whole numbers beyond 2^53, of which the interpreter makes an error of the evaluation.
fn is_plain(program: &Program, plain: &mut Plain) -> bool {
    for rule in &program.rule_infos {
        let Some(path) = names::parse_path(&rule.name) else { return false };
        if rule.rule_type == RuleType::PartialObject
            || !plain.rule(&path)
            || plain.has_default(&path) != rule.default_literal_index.is_some()
        {
            return false;
        }
    }
    let mut loops = 0;
    let mut every = 0..0;
    for (at, instruction) in program.instructions.iter().enumerate() {
        match instruction {
            // In the body of `every`, which may never run, the register would be of no value for what comes behind.
            Instruction::LoadInput { .. } | Instruction::LoadData { .. } if every.contains(&at) => return false,
            Instruction::LoopStart { params_index } => {
                let Some(params) = program.instruction_data.get_loop_params(*params_index) else { return false };
                loops += 1;
                match params.mode {
                    LoopMode::Every => every = usize::from(params.body_start)..usize::from(params.loop_end),
                    LoopMode::ForEach => {}
                    LoopMode::Any => return false,
                }
            }
            Instruction::Load { .. }
            | Instruction::LoadTrue { .. }
            | Instruction::LoadFalse { .. }
            | Instruction::LoadNull { .. }
            | Instruction::LoadBool { .. }
            | Instruction::LoadInput { .. }
            | Instruction::LoadData { .. }
            | Instruction::Move { .. }
            | Instruction::Add { .. }
            | Instruction::Sub { .. }
            | Instruction::Mul { .. }
            | Instruction::Div { .. }
            | Instruction::Eq { .. }
            | Instruction::Ne { .. }
            | Instruction::Lt { .. }
            | Instruction::Le { .. }
            | Instruction::Gt { .. }
            | Instruction::Ge { .. }
            | Instruction::Not { .. }
            | Instruction::Guard { .. }
            | Instruction::BuiltinCall { .. }
            | Instruction::FunctionCall { .. }
            | Instruction::CallRule { .. }
            | Instruction::Return { .. }
            | Instruction::RuleInit { .. }
            | Instruction::RuleReturn { .. }
            | Instruction::DestructuringSuccess { .. }
            | Instruction::ObjectCreate { .. }
            | Instruction::ArrayCreate { .. }
            | Instruction::SetCreate { .. }
            | Instruction::SetAdd { .. }
            | Instruction::Contains { .. }
            | Instruction::Index { .. }
            | Instruction::IndexLiteral { .. }
            | Instruction::ChainedIndex { .. }
            | Instruction::LoopNext { .. } => {}
            _ => return false,
        }
    }
    loops == plain.loops
}
